import { type FSWatcher, watch } from "node:fs";

/**
 * Says that a file moved, as far as the system tells. Never more than a hint: some systems tell late, or not
 * at all, and then the timer behind it has to do.
 */
export class FileHint {
  readonly #onHint: () => void;
  #watcher: FSWatcher | undefined;

  constructor(onHint: () => void) {
    this.#onHint = onHint;
  }

  get isOpen(): boolean {
    return this.#watcher !== undefined;
  }

  open(file: string): void {
    if (this.#watcher !== undefined) return;
    try {
      const watcher = watch(file, { persistent: false }, (event) => {
        // Renamed or deleted: what is there now is another file.
        if (event === "rename") this.close();
        this.#onHint();
      });
      watcher.on("error", () => this.close());
      this.#watcher = watcher;
    } catch {
      // No watches left, or no such file: the timer has to do.
    }
  }

  close(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
  }
}
