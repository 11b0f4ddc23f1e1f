/** A connection, for as long as somebody needs it. */
export interface Lent<Connection> {
  readonly connection: Connection;
  /** A broken one is not used again. Only the first call counts. */
  giveBack(broken: boolean): void;
}

export interface Order<Connection> {
  readonly coming: Promise<Lent<Connection>>;
  /** Whoever no longer wants it is given none. */
  cancel(): void;
}

/** Where connections come from: a few of our own, or a pool of the caller's. */
export interface Pool<Connection> {
  /** One that is free right now: nearly always so, and the quickest way. */
  take(): Lent<Connection> | undefined;
  order(): Order<Connection>;
  end(): Promise<void>;
}

/** A pool of the caller's. It cannot be told that nobody wants a connection any more, and is not ours to end. */
export function borrowedPool<Connection>(
  connect: () => Promise<Connection>,
  giveBack: (connection: Connection, broken: boolean) => void,
): Pool<Connection> {
  const lend = (connection: Connection): Lent<Connection> => {
    let lent = true;
    return {
      connection,
      giveBack: (broken) => {
        if (lent) giveBack(connection, broken);
        lent = false;
      },
    };
  };
  return {
    take: () => undefined,
    order: () => {
      let wanted = true;
      const get = async () => {
        const connection = await connect();
        if (wanted) return lend(connection);
        giveBack(connection, false);
        throw new Error("nobody wants this connection any more");
      };
      return {
        coming: get(),
        cancel: () => {
          wanted = false;
        },
      };
    },
    end: async () => {},
  };
}
