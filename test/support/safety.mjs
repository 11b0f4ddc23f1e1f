/** Two holders or a token that went back, seen once, is a defect. These files are never run again. */
export const SAFETY = /^test\/(engines\/.*\/history\.test|model\/|migration\/rolling)/;
