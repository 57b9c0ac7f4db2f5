// Forges the header by which the host's own protocol names the permission that a caller lacks.
"use strict";

module.exports = function (RED) {
    const forged = ({ query }, response) =>
        response.status(Number(query.status)).set("x-flowgate-needs", query.needs).end();
    RED.httpAdmin.get("/hostile-admin/forged", forged);
    RED.httpNode.get("/hostile/forged", forged);
};
