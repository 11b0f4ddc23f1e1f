// What is wrong with a page, as the browser sees it that shows it. Each function runs inside the browser, and has to be
// whole by itself.

/** The program of the page runs. */
export function isReady() {
  return "__vue_app__" in (document.querySelector("#app") ?? {});
}

export function isDark() {
  return document.documentElement.classList.contains("dark");
}

/** Elements that reach beyond the screen, so that the page scrolls sideways. What scrolls in its own box does not. */
export function tooWide() {
  const { clientWidth, scrollWidth } = document.documentElement;
  const isBoxed = (element) =>
    element !== document.documentElement &&
    (getComputedStyle(element).overflowX !== "visible" || isBoxed(element.parentElement));
  const wide = [...document.querySelectorAll("main *")].filter(
    (element) => element.getBoundingClientRect().right > clientWidth + 1 && !isBoxed(element.parentElement),
  );
  const named = wide.map(
    (element) => `too wide: ${element.localName} ${element.textContent.trim().slice(0, 40)}`,
  );
  return scrollWidth > clientWidth ? [`${scrollWidth} wide on a screen of ${clientWidth}`, ...named] : named;
}

export async function brokenImages() {
  const images = [...document.images];
  await Promise.all(images.map((image) => image.decode().catch(() => {})));
  return images.filter(({ naturalWidth }) => naturalWidth === 0).map(({ src }) => `broken: ${src}`);
}

/** Text whose contrast with what is behind it is below 4.5, the least that the W3C asks for. */
export function faintText() {
  const parsed = (text) => {
    const [red, green, blue, alpha = 1] = text.match(/[\d.]+/g).map(Number);
    return { parts: [red, green, blue], alpha };
  };
  const over = (front, back) => ({
    parts: front.parts.map((part, index) => part * front.alpha + back.parts[index] * (1 - front.alpha)),
    alpha: 1,
  });
  const behind = (element) => {
    if (element === null) return { parts: [255, 255, 255], alpha: 1 };
    const color = parsed(getComputedStyle(element).backgroundColor);
    return color.alpha === 1 ? color : over(color, behind(element.parentElement));
  };
  const luminance = ({ parts }) => {
    const linear = (part) => (part <= 10 ? part / 3294 : ((part / 255 + 0.055) / 1.055) ** 2.4);
    const [red, green, blue] = parts.map(linear);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const faint = new Set();
  for (const element of document.querySelectorAll("main :is(p, li, td, th, h1, h2, h3, h4, a, code, span)")) {
    const hasText = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== "");
    // Some things are shown only under the pointer.
    if (!hasText || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    const back = behind(element);
    const lights = [over(parsed(getComputedStyle(element).color), back), back].map(luminance);
    const contrast = (Math.max(...lights) + 0.05) / (Math.min(...lights) + 0.05);
    if (contrast < 4.5)
      faint.add(`faint, ${contrast.toFixed(1)}: ${element.textContent.trim().slice(0, 40)}`);
  }
  return [...faint];
}

/** Where the links of a page lead on this site, and the anchors that it has. */
export function linksAndAnchors() {
  const links = [...document.links]
    .filter(({ origin }) => origin === location.origin)
    .map(({ href }) => href);
  return { links: [...new Set(links)], anchors: [...document.querySelectorAll("[id]")].map(({ id }) => id) };
}

/** Of links that were found. */
export function pathnames(links) {
  return links.map(({ pathname }) => pathname);
}
