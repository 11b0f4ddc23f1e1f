export declare const compiled: (module: string) => Promise<unknown>;
export declare const fromBuild: NodeJS.Require;
