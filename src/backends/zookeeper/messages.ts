import { JuteReader, JuteWriter, notZooKeeper } from "./jute.js";

export const OP = {
  create: 1,
  delete: 2,
  getData: 4,
  setData: 5,
  getChildren: 8,
  sync: 9,
  ping: 11,
  multi: 14,
  create2: 15,
  createContainer: 19,
  auth: 100,
  getEphemerals: 103,
  closeSession: -11,
} as const;

/** Numbers of requests that are not numbered one by one. */
export const XID = { watchEvent: -1, ping: -2, auth: -4 } as const;

/** The type of event that tells of a deletion. */
export const NODE_DELETED = 2;

export const MODE = { ephemeral: 1, ephemeralSequential: 3, container: 4, persistent: 0 } as const;

export const ERROR = {
  connectionLoss: -4,
  noNode: -101,
  noAuth: -102,
  badVersion: -103,
  nodeExists: -110,
  sessionExpired: -112,
  authFailed: -115,
  sessionMoved: -118,
  authRequired: -124,
} as const;

export interface Acl {
  readonly permissions: number;
  readonly scheme: string;
  readonly id: string;
}

const ALL_PERMISSIONS = 31;
export const OPEN_ACL: readonly Acl[] = [{ permissions: ALL_PERMISSIONS, scheme: "world", id: "anyone" }];
/** All clients that are authenticated as the creator is. */
export const CREATOR_ACL: readonly Acl[] = [{ permissions: ALL_PERMISSIONS, scheme: "auth", id: "" }];

/** Of what ZooKeeper tells about a node, what matters here. */
export interface Stat {
  readonly czxid: bigint;
  /** Of its last change; no two changes of anything share one. */
  readonly mzxid: bigint;
  /** On the server's wall clock. */
  readonly ctimeMs: number;
  readonly mtimeMs: number;
  readonly version: number;
  /** The session that it lives by; 0 if by none. */
  readonly ephemeralOwner: bigint;
}

export interface Created {
  readonly path: string;
  readonly stat: Stat;
}

/** One request, as it is sent and as its answer is read. */
export interface Request<T> {
  readonly op: number;
  /** Of the node that it creates. */
  readonly path?: string;
  /** Goes through the leader and a majority: its success shows that the session is alive. */
  readonly writes: boolean;
  write(to: JuteWriter): void;
  read(from: JuteReader): T;
}

function readStat(from: JuteReader): Stat {
  const czxid = from.long();
  const mzxid = from.long();
  const ctimeMs = Number(from.long());
  const mtimeMs = Number(from.long());
  const version = from.int();
  from.int();
  from.int();
  const ephemeralOwner = from.long();
  from.int();
  from.int();
  from.long();
  // Tickets and versions of cells are made of these two.
  if (czxid <= 0n || mzxid < czxid) throw notZooKeeper();
  return { czxid, mzxid, ctimeMs, mtimeMs, version, ephemeralOwner };
}

/** The servers may only add a sequence to the path that was asked for. */
function readPath(from: JuteReader, asked: string): string {
  const path = from.text();
  if (!path.startsWith(asked)) throw notZooKeeper();
  return path;
}

export function create(path: string, data: Buffer, acl: readonly Acl[], mode: number): Request<Created> {
  return {
    op: mode === MODE.container ? OP.createContainer : OP.create2,
    writes: true,
    path,
    write(to) {
      to.text(path).buffer(data).int(acl.length);
      for (const { permissions, scheme, id } of acl) to.int(permissions).text(scheme).text(id);
      to.int(mode);
    },
    read: (from) => ({ path: readPath(from, path), stat: readStat(from) }),
  };
}

/** Only if it was changed that often; -1: however often. */
export function remove(path: string, version = -1): Request<void> {
  return {
    op: OP.delete,
    writes: true,
    write: (to) => void to.text(path).int(version),
    read: () => undefined,
  };
}

export function setData(path: string, data: Buffer, version = -1): Request<Stat> {
  return {
    op: OP.setData,
    writes: true,
    write: (to) => void to.text(path).buffer(data).int(version),
    read: readStat,
  };
}

export function getData(path: string, watch = false): Request<{ data: Buffer; stat: Stat }> {
  return {
    op: OP.getData,
    writes: false,
    write: (to) => void to.text(path).bool(watch),
    // A copy: the message that it stands in may be a thousand times as long.
    read: (from) => ({ data: Buffer.from(from.buffer()), stat: readStat(from) }),
  };
}

export function getChildren(path: string, watch = false): Request<string[]> {
  return {
    op: OP.getChildren,
    writes: false,
    write: (to) => void to.text(path).bool(watch),
    read: (from) => from.texts(),
  };
}

/** What is read after it, on the same connection, is not older than what the leader had when it was sent. */
export function sync(path: string): Request<void> {
  // It does not take a majority, so it shows nothing about the session.
  return { op: OP.sync, writes: false, write: (to) => void to.text(path), read: () => undefined };
}

/** The paths of all ephemeral nodes of this session below another one. */
export function getEphemerals(under: string): Request<string[]> {
  return {
    op: OP.getEphemerals,
    writes: false,
    write: (to) => void to.text(under),
    read: (from) => from.texts(),
  };
}

export function closeSession(): Request<void> {
  return { op: OP.closeSession, writes: true, write: () => {}, read: () => undefined };
}

/** What became of one part of a `multi`: its error, or the node that it created, with its state or without. */
interface PartResult extends Partial<Created> {
  readonly error: number;
}

/** All of these or none. An answer whose parts have errors is no success, though it is not an error either. */
export function multi(parts: readonly Request<unknown>[]): Request<readonly PartResult[]> {
  return {
    op: OP.multi,
    writes: true,
    write(to) {
      for (const part of parts) {
        to.int(part.op).bool(false).int(-1);
        part.write(to);
      }
      to.int(-1).bool(true).int(-1);
    },
    read(from) {
      const results: PartResult[] = [];
      for (;;) {
        const type = from.int();
        const done = from.bool();
        from.int();
        if (done) return results;
        results.push(readPart(type, from, parts[results.length]));
      }
    },
  };
}

/** A `create` is answered as the old or as the new one, whichever it was. */
const CREATING: readonly number[] = [OP.create, OP.create2, OP.createContainer];

function readPart(type: number, from: JuteReader, part: Request<unknown> | undefined): PartResult {
  if (type === -1) return { error: from.int() };
  const answers =
    part !== undefined && (part.op === type || (CREATING.includes(part.op) && CREATING.includes(type)));
  if (!answers) throw notZooKeeper();
  if (CREATING.includes(type)) {
    const path = readPath(from, part.path ?? "");
    return { error: 0, path, ...(type === OP.create ? undefined : { stat: readStat(from) }) };
  }
  if (type === OP.setData) readStat(from);
  return { error: 0 };
}

export interface Handshake {
  readonly lastZxid: bigint;
  readonly timeoutMs: number;
  readonly sessionId: bigint;
  readonly password: Buffer;
}

export function connectFrame({ lastZxid, timeoutMs, sessionId, password }: Handshake): Buffer {
  const to = new JuteWriter().int(0).long(lastZxid).int(timeoutMs).long(sessionId).buffer(password);
  return to.bool(false).frame();
}

/** A timeout of 0 means that the session is over. */
export function readConnected(bytes: Buffer): Omit<Handshake, "lastZxid"> {
  const from = new JuteReader(bytes);
  from.int();
  return { timeoutMs: from.int(), sessionId: from.long(), password: Buffer.from(from.buffer()) };
}

export function authFrame(user: string, password: string): Buffer {
  const to = new JuteWriter().int(XID.auth).int(OP.auth).int(0).text("digest");
  return to.buffer(Buffer.from(`${user}:${password}`)).frame();
}

export function requestFrame(xid: number, request: Request<unknown>): Buffer {
  const to = new JuteWriter().int(xid).int(request.op);
  request.write(to);
  return to.frame();
}

export function pingFrame(): Buffer {
  return new JuteWriter().int(XID.ping).int(OP.ping).frame();
}
