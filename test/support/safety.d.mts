export const SAFETY: RegExp;
