#!/bin/bash
#SBATCH --job-name=headway
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --time=24:00:00
#SBATCH --signal=TERM@120
#SBATCH --requeue

# One torchrun on each machine; each starts eight ranks. Two minutes before the time is over, SLURM sends SIGTERM to every
# step: all ranks save the same step and end. Submit the same script again to go on.
set -euo pipefail
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)

srun torchrun \
    --nnodes "$SLURM_NNODES" \
    --nproc-per-node 8 \
    --max-restarts 3 \
    --rdzv-id "$SLURM_JOB_ID" \
    --rdzv-backend c10d \
    --rdzv-endpoint "$first:29400" \
    -m headway train gpt2 --data /shared/corpus --out /shared/runs/gpt2 --resume --train.accumulate 16
