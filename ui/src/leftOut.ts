/** Which chip of the toolbar shows more where there are no stacks. */
import * as store from "./state/store";

export function leftOutText(): string {
  const { of, idle } = store.stacks.value;
  return of === "sample" || idle
    ? ""
    : " Idle waits are left out; the ✕ of “without idle waits” shows them.";
}
