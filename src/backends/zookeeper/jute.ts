/** A longer message is none of ZooKeeper's. */
const LONGEST_MESSAGE = 256 * 1_024 * 1_024;

/** Writes the binary form of ZooKeeper's messages: big-endian numbers, everything else with its length. */
export class JuteWriter {
  #bytes = Buffer.allocUnsafe(256);
  #at = 0;

  int(value: number): this {
    this.#room(4);
    this.#at = this.#bytes.writeInt32BE(value, this.#at);
    return this;
  }

  long(value: bigint): this {
    this.#room(8);
    this.#at = this.#bytes.writeBigInt64BE(value, this.#at);
    return this;
  }

  bool(value: boolean): this {
    this.#room(1);
    this.#at = this.#bytes.writeInt8(value ? 1 : 0, this.#at);
    return this;
  }

  buffer(value: Buffer): this {
    this.int(value.length).#room(value.length);
    this.#at += value.copy(this.#bytes, this.#at);
    return this;
  }

  text(value: string): this {
    const length = Buffer.byteLength(value);
    this.int(length).#room(length);
    this.#at += this.#bytes.write(value, this.#at);
    return this;
  }

  /** The message, with its length in front. */
  frame(): Buffer {
    const frame = Buffer.allocUnsafe(4 + this.#at);
    frame.writeInt32BE(this.#at, 0);
    this.#bytes.copy(frame, 4, 0, this.#at);
    return frame;
  }

  #room(more: number): void {
    if (this.#at + more <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.#bytes.length * 2, this.#at + more));
    this.#bytes.copy(larger, 0, 0, this.#at);
    this.#bytes = larger;
  }
}

/** Reads the same. To read past the end is an error: then it was no message of ZooKeeper. */
export class JuteReader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  int(): number {
    return this.#bytes.readInt32BE(this.#take(4));
  }

  long(): bigint {
    return this.#bytes.readBigInt64BE(this.#take(8));
  }

  bool(): boolean {
    return this.#bytes.readInt8(this.#take(1)) !== 0;
  }

  buffer(): Buffer {
    const length = this.#length();
    const at = this.#take(length);
    return this.#bytes.subarray(at, at + length);
  }

  text(): string {
    return this.buffer().toString();
  }

  texts(): string[] {
    return Array.from({ length: this.#length() }, () => this.text());
  }

  /** -1 says that there is nothing, which is as good as empty. */
  #length(): number {
    const length = this.int();
    if (length < -1) throw notZooKeeper();
    return Math.max(0, length);
  }

  #take(length: number): number {
    const at = this.#at;
    this.#at += length;
    if (this.#at > this.#bytes.length) throw notZooKeeper();
    return at;
  }
}

/** The first message of these bytes, if it is whole. */
export function takeMessage(bytes: Buffer): Buffer | undefined {
  if (bytes.length < 4) return undefined;
  const length = messageLength(bytes);
  return bytes.length < 4 + length ? undefined : bytes.subarray(4, 4 + length);
}

export function messageLength(bytes: Buffer): number {
  const length = bytes.readInt32BE(0);
  if (length < 0 || length > LONGEST_MESSAGE) throw notZooKeeper();
  return length;
}

export function notZooKeeper(): Error {
  return new Error("this does not speak ZooKeeper's language.");
}
