// Processes pinned to a processor, their processor time and their memory.

import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';

/** The processor of what is measured, and that of the load. */
export const MEASURED = 0;
export const LOAD = os.cpus().length - 1;

/** Pins a process with its threads and its children. */
export function pin(pid, processor) {
    tree(pid).forEach((one) => execFileSync('taskset', ['-a', '-c', '-p', String(processor), String(one)], { stdio: 'ignore' }));
}

/** A process and its descendants. */
export function tree(pid) {
    const children = fs.readdirSync(`/proc/${pid}/task`)
        .flatMap((task) => fs.readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').split(' ').filter(Boolean));
    return [pid, ...children.flatMap((child) => tree(Number(child)))];
}

/** Processor time of a process and its descendants in µs, as the scheduler counts it. */
export function processorTime(pid) {
    const run = (file) => Number(fs.readFileSync(file, 'utf8').split(' ')[0]) / 1000;
    return tree(pid)
        .flatMap((one) => fs.readdirSync(`/proc/${one}/task`).map((task) => run(`/proc/${one}/task/${task}/schedstat`)))
        .reduce((sum, time) => sum + time, 0);
}

/** Memory of a process and its descendants in MiB, with its share of what several map. */
export function memory(pid) {
    const kib = (one) => Number(fs.readFileSync(`/proc/${one}/smaps_rollup`, 'utf8').match(/^Pss:\s+(\d+)/m)[1]);
    return tree(pid).map(kib).reduce((sum, size) => sum + size, 0) / 1024;
}
