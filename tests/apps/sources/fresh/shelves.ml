(* A shop whose stock has a mutex. Main sells something every 20 ms. When the file of the argument appears,
   the thread that takes stock computes with the mutex. *)

let flag = Sys.argv.(1)
let lock = Mutex.create ()
let stock = ref 7
let stocktaker = ref ""

let thread_id () = Filename.basename (Unix.readlink "/proc/thread-self")
let now () = Int64.of_float (Unix.gettimeofday () *. 1e9)

let[@inline never] count_shelves seconds =
  let finish = Unix.gettimeofday () +. seconds in
  while Unix.gettimeofday () < finish do
    for n = 1 to 10_000 do
      stock := ((!stock * 31) + n) mod 1_000_003
    done
  done

let[@inline never] take_stock () =
  Mutex.lock lock;
  count_shelves 1.2;
  Mutex.unlock lock

let[@inline never] sell () =
  Mutex.lock lock;
  decr stock;
  Mutex.unlock lock

let take_stock_when_told () =
  stocktaker := thread_id ();
  while true do
    if Sys.file_exists flag then begin
      Sys.remove flag;
      take_stock ()
    end;
    Thread.delay 0.01
  done

let () =
  ignore (Thread.create take_stock_when_told ());
  while !stocktaker = "" do
    Thread.delay 0.01
  done;
  Printf.printf "{\"victim\": %s, \"stocktaker\": %s}\n%!" (thread_id ()) !stocktaker;
  while true do
    let from = now () in
    sell ();
    let until = now () in
    if Int64.sub until from >= 100_000_000L then
      Printf.printf "{\"from\": %Ld, \"to\": %Ld}\n%!" from until;
    Thread.delay 0.02
  done
