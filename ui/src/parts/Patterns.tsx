/** The timeline's colours and patterns of states, as SVG definitions. */
import { STATES, type State, stateOf } from "../draw/states";

/** The id of a state's pattern; `id` distinguishes several pictures on the page. */
export function patternId(id: string, code: number): string {
  return `${id}-${stateOf(code).id}`;
}

export function Patterns({ id }: { id: string }) {
  return (
    <defs>
      {STATES.map((state) => (
        <pattern
          key={state.id}
          id={patternId(id, state.code)}
          width="8"
          height="8"
          patternUnits="userSpaceOnUse"
        >
          <Tile state={state} />
        </pattern>
      ))}
    </defs>
  );
}

/** One tile of a state's pattern, 8 × 8. */
export function Tile({ state }: { state: State }) {
  let ink = "";
  state.pattern.forEach((bits, y) => {
    for (let x = 0; x < 8; x++) if (bits & (1 << x)) ink += `M${x} ${y}h1v1h-1z`;
  });
  return (
    <>
      <rect width="8" height="8" fill={`var(${state.variable})`} />
      {ink && <path d={ink} fill="var(--bg)" fill-opacity="0.4" />}
    </>
  );
}
