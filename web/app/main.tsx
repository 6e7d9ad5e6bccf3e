/** Starts the page of the console. */
import { render } from "preact";
import { App } from "./shell/app.tsx";
import "uplot/dist/uPlot.min.css";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/views.css";
import "./styles/requests.css";
import "./styles/tools.css";

const root = document.getElementById("app");
if (root === null) throw new Error("index.html: expected an element with the id 'app'");
render(<App />, root);
