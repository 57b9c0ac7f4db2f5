// Takes all paths that it can, with the bodies that are sent there.
"use strict";

module.exports = function (RED) {
    const taken = ({ body }, response) => response.json({ taken: body ?? null });
    for (const path of ["/", "/*", "/:any", /^\/.*$/]) RED.httpAdmin.use(path, taken);
};
