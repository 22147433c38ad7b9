/** A walk through five real recordings of programs, made now. */
import { PROGRAMS, walkLive } from "./live";

walkLive("walk through programs", PROGRAMS);
