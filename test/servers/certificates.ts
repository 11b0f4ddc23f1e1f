import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

export const OPENSSL_PROGRAM = { program: "openssl", package: "openssl" };

/** PEM texts: who signs, and what it has signed for a server on 127.0.0.1 and for a client. */
export interface Certificates {
  readonly ca: string;
  readonly server: { readonly cert: string; readonly key: string };
  readonly client: { readonly cert: string; readonly key: string };
}

export async function makeCertificates(): Promise<Certificates> {
  const folder = await mkdtemp(join(tmpdir(), "locktender-certificates-"));
  const openssl = (...args: string[]) => run("openssl", args, { cwd: folder });
  const read = (file: string) => readFile(join(folder, file), "utf8");
  const key = ["-newkey", "rsa:2048", "-nodes"];
  try {
    await openssl(
      "req",
      "-x509",
      ...key,
      "-keyout",
      "ca.key",
      "-out",
      "ca.pem",
      "-subj",
      "/CN=test ca",
      "-days",
      "2",
    );
    await writeFile(join(folder, "names"), "subjectAltName=IP:127.0.0.1,DNS:localhost\n");
    for (const name of ["server", "client"]) {
      await openssl("req", ...key, "-keyout", `${name}.key`, "-out", `${name}.csr`, "-subj", `/CN=${name}`);
      const signed = [
        "-in",
        `${name}.csr`,
        "-CA",
        "ca.pem",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        "-days",
        "2",
      ];
      await openssl("x509", "-req", ...signed, "-out", `${name}.pem`, "-extfile", "names");
    }
    return {
      ca: await read("ca.pem"),
      server: { cert: await read("server.pem"), key: await read("server.key") },
      client: { cert: await read("client.pem"), key: await read("client.key") },
    };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
