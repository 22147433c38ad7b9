;; A shop whose stock is in a reference (software transactional memory). The thread "heartbeat" sells
;; something every 20 ms. When the file of the argument appears, the thread "stocktaker" computes in the
;; midst of a transaction that has changed the stock, and every other transaction has to wait or retry.
(import '(java.io File)
        '(java.nio.file Files Path Paths))

(def stock (ref 7))
(def begun (promise))

(defn thread-id []
  (let [^Path link (Files/readSymbolicLink (Paths/get "/proc/thread-self" (make-array String 0)))]
    (str (.getFileName link))))

(defn count-shelves [seconds]
  (let [end (+ (System/nanoTime) (long (* seconds 1e9)))]
    (loop [sum 7]
      (if (< (System/nanoTime) end)
        (recur (long (reduce (fn [sum n] (rem (+ (* sum 31) n) 1000003)) sum (range 1000))))
        sum))))

(defn take-stock []
  (dosync
    (alter stock inc)
    (count-shelves 1.2)))

(defn sell []
  (dosync (alter stock dec)))

(defn beat []
  (let [from (System/nanoTime)
        _ (sell)
        to (System/nanoTime)]
    (when (>= (- to from) 100000000)
      (println (format "{\"from\": %d, \"to\": %d}" from to)))
    (Thread/sleep 20)))

(defn start [name body]
  (let [id (promise)
        run (fn [] (deliver id (thread-id)) @begun (while true (body)))]
    (.start (Thread. ^Runnable run ^String name))
    @id))

(let [flag (File. ^String (first *command-line-args*))
      look (fn [] (if (.delete flag) (take-stock) (Thread/sleep 10)))
      stocktaker (start "stocktaker" look)
      heartbeat (start "heartbeat" beat)]
  (println (format "{\"victim\": %s, \"stocktaker\": %s}" heartbeat stocktaker))
  (deliver begun true)
  @(promise))
