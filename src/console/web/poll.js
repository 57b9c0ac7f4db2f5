// Does something again and again while the page is looked at.

// Calls `load` at once, and `period` milliseconds after it is done; a page that is not looked at waits until it is. Returns
// a function that stops it.
export function poll(period, load) {
    let timer;
    let stopped = false;
    const turn = async () => {
        await load();
        if (!stopped) timer = setTimeout(() => (document.hidden ? whenSeen() : turn()), period);
    };
    const whenSeen = () => document.addEventListener('visibilitychange', turn, { once: true });
    turn();
    return () => {
        stopped = true;
        clearTimeout(timer);
        document.removeEventListener('visibilitychange', turn);
    };
}
