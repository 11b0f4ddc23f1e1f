/** A token of the servers, once it is there. */
export type Token = Promise<string>;

/** A user's token, shared by all calls of a connection: the servers take their time to check a password. */
export class Login {
  readonly #authenticate: () => Token;
  #token: Token | undefined;

  constructor(authenticate: () => Token) {
    this.#authenticate = authenticate;
  }

  token(): Token {
    if (this.#token !== undefined) return this.#token;
    const token = this.#authenticate();
    this.#token = token;
    token.catch(() => this.forget(token));
    return token;
  }

  /** That one is no longer good; somebody who was told so before may have got a newer one already. */
  forget(token: Token): void {
    if (this.#token === token) this.#token = undefined;
  }
}
