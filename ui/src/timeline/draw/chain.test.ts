import { expect, test } from "vitest";
import { wakerText } from "./chain";

test("an arrow says who woke the thread, or what, and how that is known if it was not seen", () => {
  const who = { name: "inspector", tid: 29970, process: "lab-starve", processIndex: 65 };
  const scene = { names: new Map([[84, who]]) };
  const text = (context: string, evidence: "direct" | "inferred") =>
    wakerText(scene, { from_lane: "t84", context, evidence });
  expect(text("task", "direct")).toBe("by inspector 29970");
  expect(text("task", "inferred")).toBe("by inspector 29970, inferred");
  expect(text("soft_interrupt", "direct")).toBe("by soft interrupt");
});
