/**
 * Where a package is found from here. In a module of its own: test tools that make CommonJS of this package cannot load
 * a module that says `import.meta`.
 */
export function resolvePackage(name: string): string {
  return import.meta.resolve(name);
}
