import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import {
  API,
  type Checker,
  type InterfaceType,
  type Symbol as Named,
  type Project,
  SignatureKind,
  SymbolFlags,
  type Type,
} from "typescript/unstable/sync";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const PROJECT = `${ROOT}public-api.tsconfig.json`;
const { exports } = JSON.parse(readFileSync(`${ROOT}package.json`, "utf8")) as {
  exports: Readonly<Record<string, { readonly types: string }>>;
};
const SUBPATHS = Object.keys(exports).filter((path) => path !== "./package.json");
const HAS_MEMBERS = SymbolFlags.Class | SymbolFlags.Interface | SymbolFlags.TypeAlias;

/** Something that the package exports, or a member of it, with what an editor shows of it. */
export interface PublicName {
  /** As in `./fence`. */
  readonly subpath: string;
  /** As in `AcquireOptions.wait`. */
  readonly name: string;
  readonly kind: "type" | "value" | "function" | "method" | "field";
  /** Empty also if only one of several overloads has no comment. */
  readonly comment: string;
  readonly examples: readonly string[];
  /** Of a type that is a choice of texts: all of them. */
  readonly choices: readonly string[];
}

/** What is read in place of some files: a test changes them to see what would be found then. */
export type Changed = Readonly<Record<string, (text: string) => string>>;

/** The public names as the compiled declarations have them, by the compiler that editors ask. It takes 0.2 s. */
export function publicNames(changed: Changed = {}): readonly PublicName[] {
  const files = SUBPATHS.map((path) => ROOT + exports[path]?.types);
  const project = JSON.stringify({
    extends: "./tsconfig.json",
    compilerOptions: { noEmit: true, rootDir: "." },
    files,
    include: [],
  });
  const readFile = (file: string): string | undefined => {
    if (file === PROJECT) return project;
    const change = file.startsWith(ROOT) ? changed[file.slice(ROOT.length)] : undefined;
    return change?.(readFileSync(file, "utf8"));
  };
  const api = new API({
    cwd: ROOT,
    fs: { readFile, fileExists: (file) => (file === PROJECT ? true : undefined) },
  });
  try {
    const opened = api.updateSnapshot({ openProjects: [PROJECT] }).getProject(PROJECT);
    if (opened === undefined) throw new Error("the compiler does not open the declarations: npm run build");
    const walk = new Walk(opened);
    for (const [index, path] of SUBPATHS.entries()) walk.module(path, files[index] as string);
    walk.partsOfAll();
    return walk.found;
  } finally {
    api.close();
  }
}

class Walk {
  readonly found: PublicName[] = [];
  readonly #project: Project;
  readonly #checker: Checker;
  readonly #seen = new Set<string>();
  /** Looked at when all that is exported has been: a type that has a subpath of its own belongs there. */
  readonly #parts: (() => void)[] = [];

  constructor(project: Project) {
    this.#project = project;
    this.#checker = project.checker;
  }

  /** What the entry of a subpath exports. */
  module(subpath: string, file: string): void {
    const source = this.#project.program.getSourceFile(file);
    const entry = source && this.#checker.getSymbolAtLocation(source);
    if (entry === undefined) throw new Error(`${file} exports nothing: npm run build`);
    for (const exported of this.#checker.getExportsOfModule(entry)) {
      const isAlias = (exported.flags & SymbolFlags.Alias) !== 0;
      const named = isAlias ? this.#checker.getAliasedSymbol(exported) : exported;
      if (!this.#isNew(named)) continue;
      const isType = (named.flags & HAS_MEMBERS) !== 0;
      const kind = named.flags & SymbolFlags.Function ? "function" : isType ? "type" : "value";
      const type = isType ? this.#checker.getDeclaredTypeOfSymbol(named) : undefined;
      this.#add(subpath, exported.name, kind, named, { choices: choicesOf(type) });
      if (type !== undefined) this.#members(subpath, exported.name, type);
      if (kind === "function") this.#parameters(subpath, exported.name, named);
    }
  }

  /** The types of options and arguments, also if they have no exported name: callers write them all the same. */
  partsOfAll(): void {
    for (const look of this.#parts) look();
  }

  #add(
    subpath: string,
    name: string,
    kind: PublicName["kind"],
    named: Named,
    { choices = [], inherited = "" }: { choices?: readonly string[]; inherited?: string } = {},
  ): void {
    const tags = this.#checker.getJsDocTagsOfSymbol(named);
    const examples = tags.flatMap((tag) => (tag.name === "example" ? [tag.text ?? ""] : []));
    const own = this.#isWhollyCommented(named) ? this.#checker.getDocumentationCommentOfSymbol(named) : "";
    this.found.push({ subpath, name, kind, comment: own || inherited, examples, choices });
  }

  /** Of overloads an editor shows the comment of the one that is called. */
  #isWhollyCommented({ declarations, flags }: Named): boolean {
    if ((flags & (SymbolFlags.Function | SymbolFlags.Method)) === 0) return true;
    return declarations.every((one) => {
      const node = one.resolve(this.#project) as { readonly jsDoc?: readonly unknown[] } | undefined;
      return (node?.jsDoc?.length ?? 0) > 0;
    });
  }

  #members(subpath: string, owner: string, type: Type): void {
    if (type.isUnionType()) {
      for (const one of type.getTypes()) this.#members(subpath, nameOf(one) ?? owner, one);
      return;
    }
    for (const member of this.#checker.getPropertiesOfType(type)) {
      if (member.name.startsWith("__#") || !this.#isNew(member)) continue;
      const kind = member.flags & SymbolFlags.Method ? "method" : "field";
      const inherited = this.#inherited(type, member.name);
      const name = `${owner}.${plain(member.name)}`;
      this.#add(subpath, name, kind, member, { inherited });
      if (kind === "method") this.#parameters(subpath, name, member);
      else this.#part(subpath, name, member);
    }
  }

  /** The comment of the member that this one overrides: editors show it. */
  #inherited(type: Type, name: string): string {
    const bases = type.isClassOrInterface() ? this.#checker.getBaseTypes(type as InterfaceType) : [];
    for (const base of bases) {
      const member = this.#checker.getPropertyOfType(base, name);
      const comment = member && this.#checker.getDocumentationCommentOfSymbol(member);
      const found = comment || this.#inherited(base, name);
      if (found !== "") return found;
    }
    return "";
  }

  #parameters(subpath: string, owner: string, named: Named): void {
    const type = this.#checker.getTypeOfSymbol(named);
    if (type === undefined) return;
    for (const signature of this.#checker.getSignaturesOfType(type, SignatureKind.Call)) {
      for (const parameter of signature.getParameters()) this.#part(subpath, owner, parameter);
    }
  }

  #part(subpath: string, owner: string, named: Named): void {
    const type = this.#checker.getTypeOfSymbol(named);
    if (type !== undefined) this.#parts.push(() => this.#lookInto(subpath, owner, type));
  }

  #lookInto(subpath: string, owner: string, type: Type): void {
    if (isOurs(type.getSymbol())) this.#members(subpath, nameOf(type) ?? owner, type);
    else if (type.isUnionType() || type.isIntersectionType())
      for (const one of type.getTypes()) this.#lookInto(subpath, owner, one);
  }

  #isNew(named: Named): boolean {
    const id = named.declarations.map(({ path, index }) => `${path}:${index}`).join();
    if (!isOurs(named) || this.#seen.has(id)) return false;
    this.#seen.add(id);
    return true;
  }
}

/** Not of the language, of Node.js or of a library. */
function isOurs(named: Named | undefined): boolean {
  return named?.declarations.some(({ path }) => path.startsWith(`${ROOT}dist/`)) ?? false;
}

function nameOf(type: Type): string | undefined {
  const name = type.getSymbol()?.name;
  return name === undefined || name.startsWith("__") ? undefined : name;
}

/** `__@asyncDispose@12`: a member that is named by a symbol. */
function plain(name: string): string {
  return name.replace(/^__@(\w+)@\d+$/, "[Symbol.$1]");
}

function choicesOf(type: Type | undefined): readonly string[] {
  if (!type?.isUnionType()) return [];
  return type.getTypes().flatMap((one) => (one.isStringLiteralType() ? [one.value] : []));
}
