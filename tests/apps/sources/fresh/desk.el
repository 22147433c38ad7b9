;;; An editor that others ask something; one question takes long.
(setq native-comp-deferred-compilation nil)

(defun sum-expenses ()
  (let ((end (+ (float-time) 1.2)) (sum 7))
    (while (< (float-time) end)
      (dotimes (n 1000)
        (setq sum (mod (+ (* sum 31) n) 1000003))))
    sum))
