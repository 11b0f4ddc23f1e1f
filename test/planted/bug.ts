/** One change to the compiled code. The text must be there exactly once, or as often as is said. */
export interface Edit {
  readonly file: string;
  readonly find: string;
  readonly replace: string;
  readonly times?: number;
}

/** A bug as a programmer might well write it, and the test whose business it is to notice. */
export interface Bug {
  readonly name: string;
  readonly edits: readonly Edit[];
  /** The test file, and a part of the test's name. */
  readonly caughtBy: readonly [file: string, test: string];
  /** That test breaks a network of its own. */
  readonly needsRoot?: true;
  /** Whether it does harm depends on which of two servers, or of two requests, is quicker: the test may have to run again. */
  readonly byChance?: true;
}
