export function isReady(): boolean;
export function isDark(): boolean;
export function tooWide(): string[];
export function brokenImages(): Promise<string[]>;
export function faintText(): string[];
export function linksAndAnchors(): { links: string[]; anchors: string[] };
export function pathnames(links: unknown[]): string[];
