// What a bundler begins with.
import { main } from "./main.mjs";

main(process.argv[2]).then((seen) => console.log(JSON.stringify(seen)));
