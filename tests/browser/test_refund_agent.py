"""The project's own notebook in a real JupyterLab, killed inside what it does to the real shop.

The shop's ledger is the truth. Between the notebook and the shop stands a door, which does what
networks do: it brings an answer late, it loses a request, it lets no look-up through.
"""

from __future__ import annotations

import json
import re
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from durable_nb.demo import ledger, record, servers
from durable_nb.demo.ledger import Entry, What
from durable_nb.demo.serving import Answer, Refused, Request, Server
from durable_nb.demo.tickets import read_tickets
from durable_nb.demo.workplace import find_notebook

HELD_S = 120.0  #: longer than it takes to kill a kernel
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Door:
    """What the notebook takes for the shop and the model server; both may change behind it."""

    def __init__(self) -> None:
        self.server = Server(0, self._route)
        self.behind: servers.Addresses | None = None
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def opens_to(self, behind: servers.Addresses) -> None:
        """Lead to other servers, and let everything through."""
        self.behind = behind
        self.lose: tuple[str, str] | None = None
        self.lost = threading.Event()
        self.lookups = True

    def late(self, what: What, word: str) -> None:
        """Let the next such request through, and keep its answer."""
        self.server.stalls.arm(f"/{what}s", (word,), HELD_S)

    def ledger(self) -> list[Entry]:
        return ledger.read(Path(self.behind.ledger))

    def _route(self, request: Request) -> Answer:
        if request.method == "GET" and not self.lookups:
            raise Refused(503, "no look-ups today")
        text = json.dumps(request.body)
        if self.lose and request.path == self.lose[0] and self.lose[1] in text:
            self.lose = None  # this request never arrives, and its sender waits
            self.lost.set()
            self.server.stalls.arm(request.path, ("",), HELD_S)
            request.hold()
            raise Refused(504, "lost")
        answer = self._forward(request)
        request.hold()
        return answer

    def _forward(self, request: Request) -> Answer:
        to = self.behind.model if request.path.startswith("/v1/") else self.behind.shop
        query = f"?{urllib.parse.urlencode(request.query)}" if request.query else ""
        keep = ("content-type", "idempotency-key")
        passed = urllib.request.Request(
            f"{to}{request.path}{query}",
            data=json.dumps(request.body).encode() if request.method == "POST" else None,
            headers={name: request.headers[name] for name in keep if name in request.headers},
            method=request.method,
        )
        try:
            with DIRECT.open(passed, timeout=30) as answer:
                return Answer(answer.status, json.load(answer))
        except urllib.error.HTTPError as error:
            raise Refused(error.code, error.read().decode()) from error

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(scope="module")
def door() -> Iterator[Door]:
    door = Door()
    try:
        yield door
    finally:
        door.close()


@pytest.fixture(scope="module")
def variables(door: Door) -> Mapping[str, str]:
    """Tell the kernels where the servers are, as `durable-nb demo --lab` does."""
    return servers.Addresses(door.server.url, door.server.url).variables()


@pytest.fixture
def shop(door: Door, tmp_path: Path) -> Iterator[Door]:
    """Run a shop and a model server with a ledger of their own behind the door."""
    with servers.running(tmp_path / "shop") as at:
        door.opens_to(at)
        yield door


def row(nb: Any, op: str) -> Any:
    return nb.panel().locator(f'tr[data-op="{op}"]')


def of(shop: Door, what: What, order: str) -> list[Entry]:
    """List what the shop really did about an order."""
    return [e for e in shop.ledger() if e.what is what and order in json.dumps(e.body)]


def kill_after(shop: Door, nb: Any, what: What, order: str) -> None:
    """Run all, SIGKILL once the shop has done it and before the kernel hears so, restart."""
    shop.late(what, order)
    nb.run_all(wait=False)
    nb.kill(lambda: of(shop, what, order))
    nb.revive()


def kill_before(shop: Door, nb: Any, what: What, order: str) -> None:
    """Run all, SIGKILL while the request is lost on its way to the shop, restart."""
    shop.lose = (f"/{what}s", order)
    nb.run_all(wait=False)
    nb.kill(shop.lost.is_set)
    nb.revive()
    assert of(shop, what, order) == []


def expect_the_end(shop: Door, nb: Any, settled: dict[str, str]) -> None:
    """Expect that all cells ran to their end, and that the shop did everything exactly once."""
    page = nb.page.locator(".jp-Notebook")
    expect(page).to_contain_text("each granted refund was paid once; nothing is unknown")
    for op in settled:  # in what `%durable status` says
        expect(page).to_contain_text(re.compile(rf"✔ {re.escape(op)}\s+completed"))
    journal = record.read("refunds", nb.folder / ".durable")
    assert journal.settled_by == settled
    assert {op.outcome for op in journal.operations} == {"completed"}
    done = shop.ledger()
    granted = sorted(order for order, answer in journal.decisions.items() if answer["refund"])
    assert sorted(e.body["order"] for e in done if e.what is What.REFUND) == granted
    mailed = sorted(e.body["to"] for e in done if e.what is What.MAIL)
    assert mailed == sorted(ticket.email for ticket in read_tickets())


def click(nb: Any, verdict: str, found: list[Entry]) -> None:
    """Settle what the panel asks about, as a person who has looked into the ledger."""
    panel = nb.panel()
    if verdict == "confirm":
        told = {name: value for name, value in found[0].body.items() if name != "text"}
        result = {"id": found[0].id, **told}  # as the shop would have answered
        panel.locator(".dnb-result").fill(json.dumps(result))
        panel.locator(".dnb-evidence").fill(f"the ledger has {found[0].id}")
    else:
        assert not found
        panel.locator(".dnb-evidence").fill("the ledger has no such entry")
    panel.locator(f".dnb-{verdict}").click()
    expect(panel.locator(".dnb-message")).to_contain_text(
        "Settled. Run its cell again, or all cells."
    )


def test_a_refund_is_settled_by_asking_the_shop_and_a_mail_by_a_click(notebook, shop):
    """Two kills: the notebook's reconciler finds the refund; the mail waits for a person."""
    nb = notebook("agent", find_notebook())
    kill_after(shop, nb, What.REFUND, "A-1003")
    kill_after(shop, nb, What.MAIL, "A-1004")
    nb.run_all()
    notice = nb.page.locator(".dnb-notice")  # for the page stands at the last cell
    expect(notice).to_contain_text("run refunds in refund_agent.ipynb has stopped")
    expect(notice).to_contain_text("mail[A-1004]#1 may have happened: confirm or deny")
    nb.shot("0-notice")
    notice.locator(".dnb-notice-show").click()
    expect(nb.panel().locator(".dnb-head")).to_be_in_viewport()
    expect(nb.panel().locator(".dnb-detail")).to_be_focused()
    expect(notice).to_have_count(0)
    expect(row(nb, "refund[A-1003]#1")).to_contain_text("completed")
    expect(row(nb, "mail[A-1004]#1")).to_contain_text("unknown")
    expect(nb.panel().locator(".dnb-detail")).to_contain_text(
        "for these inputs. Its idempotency key is not there"
    )
    for theme, name in (("Dark", "1-unknown-dark"), ("Light", "1-unknown")):  # of README, too
        nb.theme(f"JupyterLab {theme}")
        nb.panel().scroll_into_view_if_needed()
        nb.shot(name)

    click(nb, "confirm", of(shop, What.MAIL, "A-1004"))
    expect(row(nb, "mail[A-1004]#1")).to_contain_text("completed")
    nb.shot("2-confirmed")
    nb.run_all()
    expect_the_end(shop, nb, {"refund[A-1003]#1": record.RECONCILER, "mail[A-1004]#1": "person"})


def test_a_refund_that_nobody_can_look_up_is_confirmed_with_a_click(notebook, shop):
    """Done before the kill, and the shop cannot be asked: a person confirms; it is done once."""
    nb = notebook("refund-confirm", find_notebook())
    kill_after(shop, nb, What.REFUND, "A-1003")
    shop.lookups = False
    nb.run_all()
    expect(row(nb, "refund[A-1003]#1")).to_contain_text("unknown")
    expect(nb.panel().locator(".dnb-detail")).to_contain_text(
        "for its idempotency key or for these"
    )
    nb.panel().scroll_into_view_if_needed()
    nb.shot("1-unknown")

    click(nb, "confirm", of(shop, What.REFUND, "A-1003"))
    expect(row(nb, "refund[A-1003]#1")).to_contain_text("completed")
    nb.shot("2-confirmed")
    shop.lookups = True  # for the notebook's own check at its end
    nb.run_all()
    expect_the_end(shop, nb, {"refund[A-1003]#1": "person"})


@pytest.mark.parametrize("what", [What.REFUND, What.MAIL])
def test_what_never_reached_the_shop_is_denied_with_a_click_and_done_once(notebook, shop, what):
    """Killed before the effect: the ledger has nothing; denied, it is done, and only once."""
    op = f"{what}[A-1004]#1"
    nb = notebook(f"{what}-deny", find_notebook())
    kill_before(shop, nb, what, "A-1004")
    shop.lookups = False
    nb.run_all()
    expect(row(nb, op)).to_contain_text("unknown")
    click(nb, "deny", of(shop, what, "A-1004"))
    expect(row(nb, op)).to_contain_text("incomplete")
    nb.panel().scroll_into_view_if_needed()
    nb.shot("1-denied")
    assert of(shop, what, "A-1004") == []
    shop.lookups = True  # for the notebook's own check at its end
    nb.run_all()
    expect_the_end(shop, nb, {op: "person"})
    assert len(of(shop, what, "A-1004")) == 1
