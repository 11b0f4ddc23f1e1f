import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { ensurePrograms } from "./programs.js";
import type { Stoppable } from "./server-process.js";

const OPENSSL = { program: "openssl", package: "openssl" };

/** The files of a certificate for 127.0.0.1 that is its own authority. */
export interface Certificate {
  certFile: string;
  keyFile: string;
}

/** A new one, which nobody trusts by itself; its files are removed by stop(). */
export async function makeCertificate(): Promise<Certificate & Stoppable> {
  await ensurePrograms([OPENSSL]);
  const folder = await mkdtemp(join(tmpdir(), "locktender-certificate-"));
  const [certFile, keyFile] = [join(folder, "cert.pem"), join(folder, "key.pem")];
  const how = "req -x509 -days 2 -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1".split(" ");
  const whom = ["-subj", "/CN=locktender tests", "-addext", "subjectAltName=IP:127.0.0.1"];
  await promisify(execFile)(OPENSSL.program, [...how, ...whom, "-keyout", keyFile, "-out", certFile]);
  return { certFile, keyFile, stop: () => rm(folder, { recursive: true, force: true }) };
}
