"""Case files of facts and operations, in the shape of pyinfra's own."""
