// What stands above the table. It is changed in place: what has the focus keeps it.

class Header {
  constructor(view) {
    this.view = view;
    this.run = make("span", "dnb-run");
    this.status = make("span", "dnb-status");
    this.elapsed = make("span", "dnb-elapsed");
    this.pause = button("", "dnb-pause", view.guard(() => {
      const fresh = performance.now() - view.pauseAt < STILL_MS; // of a double click
      if (!view.stale && !fresh && !view.waiting("")) view.ask(this.action, "");
    }));
    this.action = "";
    this.bar = make("div", "dnb-bar");
    this.segments = new Map(WORDS.map((word) => [word, make("span", `dnb-part dnb-${word}`)]));
    this.bar.append(...this.segments.values());
    const names = ["progress", "spending", "budget", "saved"];
    this.said = new Map(names.map((name) => [name, make("span", `dnb-${name}`)]));
    this.now = button("", "dnb-now", view.guard(() => {
      const id = this.header?.current?.id;
      if (id) view.reveal(id);
    }));
    this.now.title = "show it in the table";
    this.asks = make("div", "dnb-asked");
    this.next = make("div", "dnb-next");
    this.held = make("div", "dnb-held"); // why a click on the button is not answered yet
    this.kernels = make("details", "dnb-kernels", make("summary"), make("ul", "dnb-list"));
    this.notes = make("div", "dnb-notes");
    this.head = make("div", "dnb-head", this.run, this.status, this.elapsed, this.pause);
    this.parts = [
      this.head, this.asks, this.next, this.bar,
      this.held, make("div", "dnb-said", ...this.said.values()), this.now, this.notes, this.kernels,
    ];
  }

  draw(header) {
    this.header = header;
    const counts = header.counts ?? {};
    put(this.run, `run ${header.run}`);
    const state = this.view.stale ? "stale" : header.state ?? "";
    put(this.status, state);
    this.status.dataset.state = state;
    this.pause.hidden = header.state === "finished";
    for (const [word, part] of this.segments) {
      put(part, this.said_of(word, counts[word] ?? 0, header.running ?? 0));
      part.style.flexGrow = counts[word] || 0;
    }
    for (const [name, made] of this.said) put(made, header[name] ?? "");
    this.drawAsks(header.asks ?? []);
    put(this.next, this.view.stale ? "" : header.next ?? "");
    const notes = header.notes ?? [];
    if (this.noted !== JSON.stringify(notes))
      this.notes.replaceChildren(...notes.map((note) => make("div", "", note)));
    this.noted = JSON.stringify(notes);
    this.drawKernels(header.kernels ?? []);
    const action = header.paused ? "unpause" : "pause";
    if (this.action !== action) {
      if (this.action) this.view.pauseAt = performance.now();
      this.action = action;
      this.pause.classList.replace(`dnb-${action === "pause" ? "unpause" : "pause"}`, `dnb-${action}`);
    }
    this.tick(0);
  }

  // What waits for a person, and leads there.
  drawAsks(asks) {
    const key = JSON.stringify(asks);
    if (this.asked === key) return;
    this.asked = key;
    const lead = ([op, text]) =>
      button(`${SIGNS.unknown} ${text}`, "dnb-lead", this.view.guard(() => this.view.reveal(op, true)));
    this.asks.replaceChildren(...asks.map(lead));
  }

  // What is under way has no outcome yet: it is among the incomplete.
  said_of(word, count, running) {
    const open = word === "incomplete" ? count - running : count;
    const parts = open > 0 ? [`${open.toLocaleString("en")} ${word}`] : [];
    if (open < count) parts.push(`${running.toLocaleString("en")} running`);
    return parts.join(", ");
  }

  drawKernels(kernels) {
    const key = JSON.stringify(kernels);
    if (this.known === key) return;
    this.known = key;
    this.kernels.hidden = !kernels.length;
    put(this.kernels.firstChild, `${kernels.length} kernel${kernels.length > 1 ? "s" : ""} before this one`);
    this.kernels.lastChild.replaceChildren(
      ...kernels.map((one) => make("li", "", `began ${moment(one.at)}, ${one.how}`)),
    );
  }

  // Show the clocks, so many seconds after the header came.
  tick(since) {
    const { header } = this;
    if (!header) return;
    const more = header.ticking ? since : 0;
    put(this.elapsed, `${span((header.elapsed_s ?? 0) + more)} since it began`);
    const now = header.current;
    if (!now) return put(this.now, "");
    const estimate = now.estimate_s === null ? "" : `, took ${took(now.estimate_s)} the last time`;
    const beside = now.beside > 0 ? `; ${now.beside} more at the same time` : "";
    return put(this.now, `▶ ${now.id}: ${span(now.elapsed_s + more)}${estimate}${beside}`);
  }

  hold(asking, stale) {
    this.pause.disabled = asking || stale;
    const says = this.action === "unpause" ? "Go on" : "Pause";
    put(this.pause, asking && !stale ? "queued" : says);
    const run = JSON.stringify(this.header?.run ?? "");
    put(this.held, asking && !stale ? `queued: this kernel answers when its cell ends. At once, from a terminal: durable-nb ${this.action} ${run}` : "");
  }
}
