/** One line that is written over and over on a terminal; elsewhere a line for each part of the run. */
export function progress(stream = process.stderr) {
  const start = performance.now();
  let part = "";
  const seconds = () => `${((performance.now() - start) / 1_000).toFixed(0)} s`.padStart(6);
  return {
    show(now, detail = "") {
      if (stream.isTTY) stream.write(`\r\x1b[2K${seconds()}  ${now}  ${detail}`);
      else if (now !== part) stream.write(`${seconds()}  ${now}\n`);
      part = now;
    },
    end() {
      if (stream.isTTY) stream.write("\r\x1b[2K");
    },
  };
}
