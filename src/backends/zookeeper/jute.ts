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

/** Reads the same. Whoever reads past the end gets a RangeError: then it was no message of ZooKeeper. */
export class JuteReader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  int(): number {
    this.#at += 4;
    return this.#bytes.readInt32BE(this.#at - 4);
  }

  long(): bigint {
    this.#at += 8;
    return this.#bytes.readBigInt64BE(this.#at - 8);
  }

  bool(): boolean {
    this.#at += 1;
    return this.#bytes.readInt8(this.#at - 1) !== 0;
  }

  buffer(): Buffer {
    const length = Math.max(0, this.int());
    if (this.#at + length > this.#bytes.length) throw new RangeError("the message is cut off");
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }

  text(): string {
    return this.buffer().toString();
  }

  texts(): string[] {
    return Array.from({ length: Math.max(0, this.int()) }, () => this.text());
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
  if (length < 0 || length > LONGEST_MESSAGE) throw new Error("this does not speak ZooKeeper's language.");
  return length;
}
