import { AnswerTimer } from "../../engine-kit/answer-timer.js";

const MOST_UNANSWERED = 10_000;

/** Notices that a server which was asked says nothing at all for too long. */
export class NodeHealth {
  readonly #timeoutMs: number;
  #unanswered = 0;
  #heard = true;
  #silent = false;
  #timer: AnswerTimer | undefined;

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
  }

  /** Whether what is asked now would be answered too late to count. */
  get lasts(): boolean {
    return this.#unanswered >= MOST_UNANSWERED || (this.#silent && this.#unanswered > 0);
  }

  /** Counts a question until it is answered or has failed. */
  listen(answer: Promise<unknown>): void {
    if (this.#unanswered++ === 0) this.#hear();
    this.#timer ??= this.#look();
    answer.then(
      () => {
        this.#unanswered--;
        this.#hear();
      },
      () => void this.#unanswered--,
    );
  }

  end(): void {
    this.#timer?.stop();
  }

  #hear(): void {
    this.#heard = true;
    this.#silent = false;
  }

  /** One timer for all that is asked meanwhile. */
  #look(): AnswerTimer {
    this.#heard = false;
    return new AnswerTimer(this.#timeoutMs, () => {
      this.#silent = this.#unanswered > 0 && !this.#heard;
      this.#timer = this.#unanswered > 0 ? this.#look() : undefined;
    }).unref();
  }
}
