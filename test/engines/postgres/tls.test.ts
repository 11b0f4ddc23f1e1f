import { expect, onTestFinished, test } from "vitest";
import { makeCertificates } from "../../servers/certificates.js";
import { startPostgres } from "./server.js";
import { backend, request } from "./tools.js";

test("with TLS the server's certificate is checked, by the host that the URL names", async () => {
  const { ca, server: own } = await makeCertificates();
  const server = await startPostgres({
    settings: ["ssl = on", "ssl_cert_file = '../cert'", "ssl_key_file = '../key'"],
    files: { cert: own.cert, key: own.key },
  });
  onTestFinished(() => server.stop());
  const url = `${server.url}?sslmode=require`;
  expect((await backend({ url, tls: { ca } }).claim(request("a"))).state).toBe("granted");
  await expect(backend({ url }).claim(request("a"))).rejects.toMatchObject({
    code: "backend",
    retryable: false,
    message: expect.stringMatching(/tls: \{ ca \}/),
  });
  const plain = await startPostgres();
  onTestFinished(() => plain.stop());
  const asked = backend({ url: `${plain.url}?sslmode=require`, tls: { ca } }).claim(request("a"));
  await expect(asked).rejects.toMatchObject({
    code: "backend",
    retryable: false,
    message: expect.stringMatching(/does not speak TLS/),
  });
});
