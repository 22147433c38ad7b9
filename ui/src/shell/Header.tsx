/** The header: the open trace, tabs, search, theme and help. */

import { isShown, server, summary } from "../api/data";
import { chordText, run } from "../commands";
import { openMenu } from "../parts/MenuHost";
import * as store from "../state/store";
import { start, theme } from "../state/theme";
import { durationText, plural } from "../units";
import { SearchBox } from "./SearchBox";

const TABS: readonly { view: store.View; title: string; key: string }[] = [
  { view: "answers", title: "Answers", key: "Digit1" },
  { view: "tables", title: "Tables", key: "Digit2" },
  { view: "stacks", title: "Stacks", key: "Digit3" },
];

export function Header() {
  const open = store.trace.value;
  const elsewhere = open !== null || store.diff.value !== null;
  return (
    <header class="header">
      <button
        type="button"
        class="brand"
        onClick={() => run("trace.list")}
        title={elsewhere ? "All traces" : undefined}
        disabled={!elsewhere || server.value.data?.single !== null}
      >
        <img src="./icon.svg" width="20" height="20" alt="" />
        <span>Unhitch</span>
      </button>
      {open !== null && (
        <>
          <TraceName name={open} />
          <NotesButton />
          <Tabs />
          <StartButton />
          <SearchBox />
        </>
      )}
      <span class="header-end">
        <button
          type="button"
          class="btn quiet"
          onClick={() => run("palette")}
          title={`Run any command (${chordText("Ctrl+Shift+KeyP")})`}
        >
          Commands
        </button>
        <button
          type="button"
          class="btn quiet"
          onClick={() => run("view.theme")}
          aria-label={theme.value === "dark" ? "Light colours" : "Dark colours"}
          title="Dark or light (T)"
        >
          {theme.value === "dark" ? "☀" : "☾"}
        </button>
        <button
          type="button"
          class="btn quiet"
          onClick={() => run("help")}
          aria-label="Keys and commands"
          title="Keys and commands (?)"
        >
          ?
        </button>
      </span>
    </header>
  );
}

function TraceName({ name }: { name: string }) {
  const data = summary.value.data;
  const facts = data
    ? [
        data.host,
        plural(data.cpus, "CPU"),
        durationText(data.duration_ns),
        plural(data.switches, "switch", "switches"),
      ]
        .filter(Boolean)
        .join(" · ")
    : "";
  return (
    <span class="trace-name" title={`${name}\n${facts}`}>
      <span class="trace-file">{name}</span>
      <span class="trace-facts dim">{facts}</span>
    </span>
  );
}

/** Shows whether there are notes; its tooltip shows them. */
function NotesButton() {
  const data = summary.value.data;
  if (data === null) return null;
  return (
    <button
      type="button"
      class="btn quiet"
      aria-haspopup="dialog"
      title={data.notes || "No notes yet"}
      onClick={() => run("trace.notes")}
    >
      Notes{data.notes !== "" && " •"}
    </button>
  );
}

function Tabs() {
  return (
    <div
      class="tabs"
      role="tablist"
      aria-label="Views"
      onContextMenu={(event) => {
        event.preventDefault();
        openStartMenu({ x: event.clientX, y: event.clientY });
      }}
      onKeyDown={(event) => {
        const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
        if (step === 0) return;
        event.preventDefault();
        const at = TABS.findIndex((tab) => tab.view === store.view.value);
        const next = TABS[(at + step + TABS.length) % TABS.length];
        if (!next) return;
        run(`view.${next.view}`);
        document.getElementById(`tab-${next.view}`)?.focus();
      }}
    >
      {TABS.map((tab) => {
        const current = store.view.value === tab.view;
        return (
          <button
            type="button"
            key={tab.view}
            id={`tab-${tab.view}`}
            role="tab"
            aria-selected={current}
            aria-controls={
              current && isShown.value && store.layout.value !== "timeline" ? "view" : undefined
            }
            tabIndex={current ? 0 : -1}
            class="tab"
            title={`${tab.title} (${chordText(tab.key)})`}
            onClick={() => run(`view.${tab.view}`)}
          >
            {tab.title}
          </button>
        );
      })}
    </div>
  );
}

/** Offers the view that traces open with. */
function StartButton() {
  return (
    <button
      type="button"
      class="btn quiet tabs-menu"
      aria-haspopup="menu"
      aria-label="Start view"
      title="What traces open with"
      onClick={(event) => openStartMenu(event.currentTarget)}
    >
      ▾
    </button>
  );
}

function openStartMenu(at: Element | { x: number; y: number }): void {
  const items = [
    { title: "Open traces with this view", run: () => void run("view.start") },
    {
      title: "Open traces on their answer",
      disabled: start.peek() === "",
      run: () => void run("view.start-answer"),
    },
  ];
  openMenu("Start view", items, at);
}
