"""Chromium from Debian, driven by Playwright: a page at one width in one colour scheme."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

CHROMIUM = "/usr/bin/chromium"
WIDTHS = (390, 1280)  # CSS pixels of a common phone, and of a laptop
SCHEMES = ("light", "dark")
# For every element with text of its own: what it says, its contrast (WCAG 2.2, 1.4.3), its size in
# pixels, and whether a person sees it.
TEXTS = """() => {
  const channel = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126*channel(r) + 0.7152*channel(g) + 0.0722*channel(b);
  const colour = text => text.match(/[0-9.]+/g).map(Number);
  const ground = node => {
    for (; node; node = node.parentElement) {
      const found = colour(getComputedStyle(node).backgroundColor);
      if (found.length < 4 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const own = node => [...node.childNodes].some(c => c.nodeType === 3 && c.data.trim());
  return [...document.body.querySelectorAll('*')].filter(own).map(node => {
    const style = getComputedStyle(node), box = node.getBoundingClientRect();
    const [a, b] = [light(colour(style.color)), light(ground(node))].sort((x, y) => y - x);
    return {text: node.textContent, contrast: (a + 0.05) / (b + 0.05),
            size: parseFloat(style.fontSize), left: box.left, right: box.right,
            shown: box.width > 0 && box.height > 0 && style.visibility === 'visible'};
  });
}"""


class Seen:
    """A page that is open, and what it asked the world for.

    + requests: addresses, without the page itself
    + errors: what its console says
    """

    def __init__(self, page: Page, file: Path) -> None:
        self.page = page
        self.requests: list[str] = []
        self.errors: list[str] = []
        address = file.as_uri()
        page.on("request", lambda r: self.requests.append(r.url) if r.url != address else None)
        page.on("console", lambda message: self.errors.append(message.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.goto(address)

    def texts(self) -> list[dict[str, Any]]:
        """Every element with text; see TEXTS."""
        found: list[dict[str, Any]] = self.page.evaluate(TEXTS)
        return found

    def overflow(self) -> int:
        """Pixels by which one must scroll to the side."""
        script = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        return int(self.page.evaluate(script))

    def keep(self, name: str) -> None:
        """Leave a picture in the folder that SCREENSHOTS names, for people to look at."""
        if folder := os.environ.get("SCREENSHOTS"):
            self.page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)


@contextmanager
def opened(file: Path, width: int, scheme: Any) -> Iterator[Seen]:
    """Open a file without a network."""
    # Chromium's sandbox refuses root, and a lab needs root; the page is our own.
    words = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=words)
        try:
            context = browser.new_context(
                viewport={"width": width, "height": 844}, color_scheme=scheme, offline=True
            )
            yield Seen(context.new_page(), file)
        finally:
            browser.close()
