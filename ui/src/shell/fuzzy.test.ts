import { expect, test } from "vitest";
import { rank, score } from "./fuzzy";

test("the letters must occur in order", () => {
  expect(score("Zoom in", "zin")).not.toBeNull();
  expect(score("Zoom in", "niz")).toBeNull();
});

test("starts of words win, and an empty search changes nothing", () => {
  const titles = ["Timeline Pan left", "View Dark or light", "Copy Copy a link"];
  const pick = (text: string) => rank(titles, text, (title) => title)[0];
  expect(pick("dark")).toBe("View Dark or light");
  expect(pick("pl")).toBe("Timeline Pan left");
  expect(rank(titles, " ", (title) => title)).toEqual(titles);
});
