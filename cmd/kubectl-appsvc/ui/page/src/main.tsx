import { render } from "preact";
import { Page } from "./page";
import { takeToken } from "./server";
import "./style.css";

render(<Page token={takeToken()} />, document.getElementById("page")!);
