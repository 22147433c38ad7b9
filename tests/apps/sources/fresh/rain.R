# Sums the rain of two years in two processes (mclapply), every 20 ms. When the file of the first argument
# appears, the second year takes long; its process writes who it is to the file of the second argument.
library(parallel)

arguments <- commandArgs(TRUE)
flag <- arguments[1]
rain <- (1:1000) / 7

now <- function() as.numeric(Sys.time()) * 1e9

sum_rain <- function(seconds) {
  total <- 0
  end <- proc.time()[["elapsed"]] + seconds
  while (proc.time()[["elapsed"]] < end) total <- total + sum(sqrt(rain))
  total
}

sum_year <- function(seconds) {
  if (seconds > 0) writeLines(as.character(Sys.getpid()), arguments[2])
  sum_rain(seconds)
}

say <- function(...) {
  cat(sprintf(...))
  flush(stdout())
}

say('{"victim": %d}\n', Sys.getpid())
repeat {
  late <- if (file.exists(flag)) 1.3 else 0
  if (late > 0) unlink(flag)
  from <- now()
  mclapply(c(0, late), sum_year, mc.cores = 2)
  to <- now()
  if (to - from >= 1e8) say('{"from": %.0f, "to": %.0f}\n', from, to)
  Sys.sleep(0.02)
}
