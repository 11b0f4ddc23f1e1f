/** Takes a lock, is refused it a second time, and tells what was seen. */
export async function turn(locks) {
  const mutex = locks.mutex(["bundled", String(process.pid)]);
  try {
    const lease = await mutex.acquire();
    const late = await mutex.acquire({ wait: 0, within: null }).catch((error) => error);
    await lease.release();
    // Bundlers shorten the names of classes.
    return { client: locks.guarantees.client, token: typeof lease.token, error: late.name };
  } finally {
    await locks.close();
  }
}
