"""A browser with the network cut off, and a server of static files below a subpath."""

import contextlib
import functools
import http.server
import os
import threading
import time

import pytest

from flashlib import bench_widgets

FLAGS = [
    *bench_widgets.CHROMIUM_FLAGS,
    "--no-proxy-server", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]  # fmt: skip
LOCAL = ("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:", "file:", "about:")


@contextlib.contextmanager
def chromium():
    """A headless browser; skips where there is none, fails in CI."""
    from playwright.sync_api import sync_playwright

    path = bench_widgets.chromium()
    if path is None and not os.environ.get("CI"):
        pytest.skip(f"no Chromium found: install one of {', '.join(bench_widgets.BROWSERS)}")
    assert path, "no Chromium found"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@contextlib.contextmanager
def offline_page(browser, **options):
    """(page, strangers): the addresses of other hosts that the page asked for, in vain."""
    context = browser.new_context(**options)
    strangers = []
    context.on("request", lambda r: r.url.startswith(LOCAL) or strangers.append(r.url))
    yield context.new_page(), strangers
    context.close()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    extensions_map = http.server.SimpleHTTPRequestHandler.extensions_map | {
        ".wasm": "application/wasm",
        ".mjs": "text/javascript",
        ".whl": "application/zip",
    }

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def served(folder):
    """The address at which `folder` is served, as any static host would."""
    handler = functools.partial(_Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)


def wait_until(check, seconds, message):
    """Poll `check` until it gives something true, which is returned."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = check()
        if value:
            return value
        time.sleep(0.1)
    return pytest.fail(message)
