;;; A ledger with a mutex. Main books something every 20 ms. When the file of the last argument appears, the
;;; teller computes with the mutex.
(require :sb-posix)

(defvar *flag* (car (last sb-ext:*posix-argv*)))
(defvar *lock* (sb-thread:make-mutex :name "ledger"))
(defvar *balance* 0)
(defvar *teller* nil)

(defun now ()
  (multiple-value-bind (seconds microseconds) (sb-ext:get-time-of-day)
    (* 1000 (+ (* 1000000 seconds) microseconds))))

(defun thread-id ()
  (let ((path (sb-posix:readlink "/proc/thread-self")))
    (subseq path (1+ (position #\/ path :from-end t)))))

(defun pay-interest (nanoseconds)
  (let ((end (+ (now) nanoseconds)))
    (loop while (< (now) end)
          do (dotimes (n 10000)
               (setf *balance* (mod (+ (* 31 *balance*) n) 1000003))))))

(defun close-year ()
  (sb-thread:with-mutex (*lock*)
    (pay-interest 1200000000)))

(defun book ()
  (sb-thread:with-mutex (*lock*)
    (incf *balance*)))

(defun work-as-teller ()
  (setf *teller* (thread-id))
  (loop
    (when (probe-file *flag*)
      (delete-file *flag*)
      (close-year))
    (sleep 0.01)))

(sb-thread:make-thread #'work-as-teller :name "teller")
(loop until *teller* do (sleep 0.01))
(format t "{\"victim\": ~a, \"teller\": ~a}~%" (thread-id) *teller*)
(finish-output)
(loop
  (let ((from (now)))
    (book)
    (let ((to (now)))
      (when (>= (- to from) 100000000)
        (format t "{\"from\": ~d, \"to\": ~d}~%" from to)
        (finish-output))))
  (sleep 0.02))
