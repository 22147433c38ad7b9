/** A walk through five real recordings of hangs, made now. */
import { LAB, walkLive } from "./live";

walkLive("walk through the lab", LAB);
