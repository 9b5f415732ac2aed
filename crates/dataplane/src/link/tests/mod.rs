mod egress;
mod ingress;
mod laws;
