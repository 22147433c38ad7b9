/** Draws the scene in the next animation frame, once for all changes until then, and times it. */
import { fitCanvas } from "../../draw/canvas";
import { type Measure, memoise } from "../../draw/text";
import type { Pointing, Scene } from "../data/scene";
import { drawChain } from "./chain";
import { drawHead } from "./head";
import { drawLabels } from "./labels";
import { LanePainter } from "./lanes";
import { drawOver } from "./overlay";

export class Painter {
  private readonly lanes = new LanePainter();
  private scene: Scene | null = null;
  private over: { scene: Scene; pointing: Pointing } | null = null;
  private frame = 0;
  private measure: Measure | null = null;
  private font = "";

  /**
   * `drawn` is called after each frame with its duration in ms; 0 if only the overlay was drawn.
   */
  constructor(
    private readonly base: HTMLCanvasElement,
    private readonly top: HTMLCanvasElement,
    private readonly drawn: (ms: number) => void,
  ) {}

  get waiting(): boolean {
    return this.frame !== 0;
  }

  show(scene: Scene): void {
    this.scene = scene;
    this.schedule();
  }

  point(scene: Scene, pointing: Pointing): void {
    this.over = { scene, pointing };
    this.schedule();
  }

  stop(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
  }

  /** The picture on the screen as a PNG: the lanes with the overlay. */
  async png(): Promise<Blob | null> {
    const canvas = document.createElement("canvas");
    canvas.width = this.base.width;
    canvas.height = this.base.height;
    const ctx = canvas.getContext("2d");
    ctx?.drawImage(this.base, 0, 0);
    ctx?.drawImage(this.top, 0, 0);
    return new Promise((done) => canvas.toBlob(done, "image/png"));
  }

  private schedule(): void {
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.draw());
  }

  private draw(): void {
    this.frame = 0;
    const begin = performance.now();
    const { scene, over } = this;
    this.scene = null;
    this.over = null;
    if (scene) this.drawScene(scene);
    if (over) {
      const ctx = fitCanvas(
        this.top,
        over.scene.geometry.width,
        over.scene.geometry.height,
        devicePixelRatio,
      );
      if (ctx) drawOver(ctx, over.scene, over.pointing);
    }
    this.drawn(scene ? performance.now() - begin : 0);
  }

  private drawScene(scene: Scene): void {
    const g = scene.geometry;
    const ctx = fitCanvas(this.base, g.width, g.height, devicePixelRatio);
    if (!ctx || g.width < 1 || g.height < 1) return;
    ctx.font = `11px ${scene.theme.font}`;
    if (!this.measure || this.font !== ctx.font) {
      this.font = ctx.font;
      this.measure = memoise((text) => ctx.measureText(text).width);
    }
    this.lanes.draw(ctx, scene, this.measure);
    drawChain(ctx, scene, this.measure);
    drawLabels(ctx, scene, this.measure);
    drawHead(ctx, scene);
  }
}
