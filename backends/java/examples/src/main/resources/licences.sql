-- The tables of the policy `licences`.

-- How many pods may use a product at the same time on the nodes of a host group.
CREATE TABLE IF NOT EXISTS licences (
  product VARCHAR(253) NOT NULL,
  host_group VARCHAR(63) NOT NULL,
  seats INTEGER NOT NULL,
  PRIMARY KEY (product, host_group)
);

-- The seats in use. The policy adds a row when it binds a pod; the licence server, or a job that compares the table with
-- the pods of the cluster, deletes it when the pod has ended.
CREATE TABLE IF NOT EXISTS leases (
  pod_uid VARCHAR(64) NOT NULL PRIMARY KEY,
  product VARCHAR(253) NOT NULL,
  host_group VARCHAR(63) NOT NULL,
  taken_at TIMESTAMP NOT NULL
);
CREATE INDEX IF NOT EXISTS leases_of ON leases (product, host_group);
