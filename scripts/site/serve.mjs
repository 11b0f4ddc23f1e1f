import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";

const TYPES = {
  ".css": "text/css",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".json": "application/json",
  ".svg": "image/svg+xml",
  ".woff2": "font/woff2",
};

/**
 * A site on this machine, as any server of plain files shows it.
 * @param {string} folder
 * @param {{ base?: string, port?: number }} [options]
 * @returns {Promise<{ url: string, close(): Promise<void> }>}
 */
export async function serveSite(folder, { base = "/", port = 0 } = {}) {
  const server = createServer(async ({ url }, response) => {
    const path = normalize(decodeURIComponent(new URL(url, "http://localhost").pathname));
    const file = path.endsWith("/") ? `${path}index.html` : path;
    const content = file.startsWith(base)
      ? await contentOf(join(folder, file.slice(base.length)))
      : undefined;
    const type = TYPES[extname(file)] ?? "application/octet-stream";
    response.writeHead(content === undefined ? 404 : 200, { "content-type": type }).end(content);
  });
  await new Promise((resolve, reject) => server.once("error", reject).listen(port, "127.0.0.1", resolve));
  const close = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  return { url: `http://127.0.0.1:${server.address().port}${base}`, close };
}

function contentOf(file) {
  return readFile(file).catch((error) => {
    if (["ENOENT", "EISDIR", "ENOTDIR"].includes(error.code)) return undefined;
    throw error;
  });
}
