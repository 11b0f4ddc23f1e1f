const ms = (value) => (value === undefined ? "never" : `${Math.round(value).toLocaleString("en")} ms`);

/**
 * What was seen, one sentence each, and whether it is what a lock has to do.
 * @returns {{ ok: boolean, text: string }[]}
 */
export function judge(story, { expectedOrders, ttlMs, granularityMs }) {
  const { turns, book, looks, mostHolders, view } = story;
  const killed = turns.find(({ end }) => end === "SIGKILL");
  const stopped = turns.find(({ wokenAt }) => wokenAt !== undefined);
  const cut = turns.filter(({ end }) => end !== "written");
  const numbers = book.orders.map(({ number }) => number);
  // The promise is ttl + 10 % + what the engine documents; half a second more is for a busy machine.
  const latestMs = ttlMs * 1.1 + granularityMs + 500;

  return [
    {
      ok: turns.length === expectedOrders + 2 && book.orders.length === expectedOrders,
      text: `${turns.length} grants: ${book.orders.length} of ${expectedOrders} orders written, and ${cut.length} turns cut off (${cut.map(({ end }) => end).join(", ")})`,
    },
    {
      ok: inOrder(turns.map(({ token }) => token)),
      text: `each token was greater than the one before it: ${turns.at(0)?.token} … ${turns.at(-1)?.token}`,
    },
    {
      ok: mostHolders === 1 && overlaps(turns).length === 0,
      text: `no two worked at once: ${overlaps(turns).length} overlaps in ${turns.length} turns by one clock, at most ${mostHolders} holder in ${looks} looks`,
    },
    {
      ok: killed?.takeoverMs <= latestMs,
      text: `time from the kill to the next grant: ${ms(killed?.takeoverMs)} (the ttl is ${ms(ttlMs)})`,
    },
    {
      ok: stopped?.takeoverMs <= latestMs,
      text: `time from the stop to the next grant: ${ms(stopped?.takeoverMs)}`,
    },
    {
      ok: stopped?.heldAfterwards === false && stopped.told === "paused" && stopped.rejected === "paused",
      text: `the stopped one, awake again: held ${stopped?.heldAfterwards}, signal "${stopped?.told}", run rejected with "${stopped?.rejected}"`,
    },
    {
      ok: book.refused.length === 1 && book.refused[0].who === stopped?.who,
      text: `late writes refused by their token: ${book.refused.length}${book.refused.map(({ number }) => `, a second order ${number}`)}`,
    },
    {
      ok: numbers.every((number, index) => number === index + 1),
      text: `the book has orders ${numbers.at(0)} to ${numbers.at(-1)}, each number once`,
    },
    {
      ok: view.holders.length + view.waiters.length === 0,
      text: `at the end ${view.holders.length} held and ${view.waiters.length} waited`,
    },
  ];
}

const inOrder = (tokens) => tokens.every((token, index) => index === 0 || token > tokens[index - 1]);

/** Turns that began before an earlier one had ended, by their own word. */
function overlaps(turns) {
  return turns.filter((turn, index) => turns.slice(0, index).some(({ endAt }) => !(endAt <= turn.inAt)));
}
