#!/bin/bash
# A search by seed on a Slurm cluster: an array of eight tasks, each with an eighth of the seeds.
# The same with `ferrule test … --lab` or `ferrule study all`.
#
#   sbatch --wait slurm-array.sh
#   ferrule merge ferrule-search-*.json
#
#SBATCH --job-name=ferrule-search
#SBATCH --array=0-7
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=2
#SBATCH --mem=2G
#SBATCH --time=01:00:00
#SBATCH --output=ferrule-search-%a.log

set -u

# The array counts from 0, as `--shard` does.
part="$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT"
ferrule lab run ten-nodes --check --seeds 1000000 --jobs "$SLURM_CPUS_PER_TASK" \
    --json --shard "$part" > "ferrule-search-$SLURM_ARRAY_TASK_ID.json"
status=$?

# 1 is a finding: a result, and no failure of the task.
[ "$status" -le 1 ] || exit "$status"
