# The table of the results of go test -bench.
BEGIN { split("Average Perc50 Perc90 Perc95 Perc99", buckets) }
/^BenchmarkPerfScheduling.*SchedulingDuration/ {
  split("", value); split($1, name, "/")
  for (i = 3; i < NF; i += 2) value[$(i + 1)] = $i
  row = "| " name[3] ", " name[2] " | " value["nodes"] + 0 ", " value["pods"] + 0
  for (i = 1; i <= 5; i++) row = row " | " ("SchedulingThroughput/" buckets[i] in value ? value["SchedulingThroughput/" buckets[i]] : "–")
  rows[name[3]] = rows[name[3]] row " | " value["SchedulingDuration/Duration"] " | " (value["threshold"] > 0 ? value["threshold"] + 0 : "–") " |\n"
}
END {
  print "| | nodes, pods | Average | Perc50 | Perc90 | Perc95 | Perc99 | SchedulingDuration | Kubernetes' threshold |\n|---|---|---|---|---|---|---|---|---|"
  printf "%s%s", rows["SchedulingBasic"], rows["TopologySpreading"]
}
