// The guide comes with its own part of the server.
import { element } from "./app.js";

export async function guideView(main) {
  main.replaceChildren(element("h1", {}, "Guide"));
  return {};
}
