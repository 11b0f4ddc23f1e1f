import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

export const OPENSSL_PROGRAM = { program: "openssl", package: "openssl" };

/** PEM texts. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

/** The authority that signs, and what it has signed for a server on 127.0.0.1 and for a client. */
export interface Certificates {
  readonly ca: string;
  readonly server: Certificate;
  readonly client: Certificate;
}

type OpenSsl = (...args: string[]) => Promise<unknown>;

const NEW_KEY = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes".split(" ");
const NAMES = "subjectAltName=IP:127.0.0.1";

/** For 127.0.0.1, and its own authority: no client trusts it by itself. */
export function makeCertificate(): Promise<Certificate> {
  return inFolder(async (openssl, folder) => {
    await selfSign(openssl, "own");
    return read(folder, "own");
  });
}

export function makeCertificates(names = NAMES): Promise<Certificates> {
  return inFolder(async (openssl, folder) => {
    await selfSign(openssl, "ca");
    await writeFile(join(folder, "names"), names);
    for (const name of ["server", "client"]) {
      await openssl("req", ...NEW_KEY, ...keptAs(name, "csr"), "-subj", `/CN=${name}`);
      const how = `-req -in ${name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names`;
      await openssl("x509", ...how.split(" "), "-out", `${name}.pem`);
    }
    const [{ cert: ca }, server, client] = await Promise.all([
      read(folder, "ca"),
      read(folder, "server"),
      read(folder, "client"),
    ]);
    return { ca, server, client };
  });
}

async function selfSign(openssl: OpenSsl, name: string): Promise<void> {
  const whom = ["-subj", "/CN=locktender tests", "-addext", NAMES];
  await openssl("req", "-x509", "-days", "2", ...NEW_KEY, ...keptAs(name, "pem"), ...whom);
}

function keptAs(name: string, kind: string): string[] {
  return ["-keyout", `${name}.key`, "-out", `${name}.${kind}`];
}

async function read(folder: string, name: string): Promise<Certificate> {
  const [cert, key] = await Promise.all(
    ["pem", "key"].map((kind) => readFile(join(folder, `${name}.${kind}`), "utf8")),
  );
  return { cert: cert ?? "", key: key ?? "" };
}

async function inFolder<T>(work: (openssl: OpenSsl, folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), "locktender-certificates-"));
  const run = promisify(execFile);
  try {
    return await work((...args) => run(OPENSSL_PROGRAM.program, args, { cwd: folder }), folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
