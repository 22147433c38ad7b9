/** The legend of colours and patterns, drawn with the same tables as the lanes. */
import { useLayoutEffect, useRef } from "preact/hooks";
import { STATES } from "../draw/states";
import type { Theme } from "../draw/theme";
import * as model from "./data/model";
import { buildTable, COVER_STEPS, keyOf, lookOfHue, lookOfState } from "./draw/looks";
import { blit } from "./draw/raster";

const WIDTH = 28;
const HEIGHT = 14;

function Swatch({ looks, theme }: { looks: readonly number[]; theme: Theme }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    const ctx = canvas.current?.getContext("2d");
    if (!ctx) return;
    const image = new ImageData(WIDTH, HEIGHT);
    const keys = new Uint16Array(WIDTH).map((_, x) =>
      keyOf(looks[Math.floor((x * looks.length) / WIDTH)] ?? 0, COVER_STEPS - 1, false),
    );
    blit(keys, buildTable(theme, HEIGHT), HEIGHT, new Uint32Array(image.data.buffer), WIDTH, 0);
    ctx.putImageData(image, 0, 0);
  }, [theme]);
  return <canvas ref={canvas} width={WIDTH} height={HEIGHT} aria-hidden="true" />;
}

const HUES = [0, 1, 2, 3].map(lookOfHue);

export function Legend() {
  const theme = model.theme.value;
  const open = model.legend.value;
  return (
    <div class="tl-legend">
      <button
        type="button"
        class="btn"
        aria-expanded={open}
        onClick={() => (model.legend.value = !open)}
      >
        Legend
      </button>
      {open && (
        <dl tabIndex={0} aria-label="Colours and patterns">
          {STATES.map((state) => (
            <div key={state.id}>
              <dt>
                <Swatch looks={[lookOfState(state.code)]} theme={theme} /> {state.name}
              </dt>
              <dd>{state.description}</dd>
            </div>
          ))}
          <div>
            <dt>
              <Swatch looks={HUES} theme={theme} /> on a CPU
            </dt>
            <dd>one colour per process</dd>
          </div>
          <div>
            <dt>arrows</dt>
            <dd>a wake-up: solid if observed, dashed if inferred, dotted if records were lost</dd>
          </div>
          <div>
            <dt>ticks at the bottom</dt>
            <dd>CPU samples</dd>
          </div>
        </dl>
      )}
    </div>
  );
}
