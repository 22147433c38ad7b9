/** Entry point of the page. */
import { render } from "preact";
import { watchStatus } from "./api/data";
import { listen } from "./commands";
import { App } from "./shell/App";
import { applyTheme } from "./state/theme";
import { syncUrl } from "./state/url";
import "./shell/theme.css";
import "./shell/shell.css";
import "./shell/parts.css";

applyTheme(document);
syncUrl(window);
watchStatus();
listen(window);
const root = document.getElementById("app");
if (root) render(<App />, root);
