// A view that stays when its address changes.

// `make(place)` returns an object with `go(route)`, which takes an address and returns whether the view stays, `load()`, and
// `stop()`. Returns what the page calls: `show` and `update`.
export function lasting(make) {
    let view = null;
    return {
        update: (route) => view?.go(route) ?? false,
        show(place, route) {
            const shown = make(place);
            view = shown;
            shown.go(route);
            shown.load();
            return () => {
                view = null;
                shown.stop();
            };
        },
    };
}
